"""Lookup: the few lines of script by which a machine finds its own row in the table of densities.

The type comes from the instance metadata service, with a session token (IMDSv2). A machine that
cannot reach it takes the last row. The number ends up in `max_pods` (shell) or `$MaxPods`
(PowerShell), and what the kubelet is to keep, if anything, in `kube_reserved` (shell only: Windows
reckons with the pods that it is told).
"""

from typing import Final

from wainwright.aws.userdata.density import Table

SHELL: Final = """\
imds=http://169.254.169.254/latest
token=$(curl -sf --retry 5 -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 300' $imds/api/token)
type=$(curl -sf --retry 5 -H "X-aws-ec2-metadata-token: $token" $imds/meta-data/instance-type)
while IFS='=' read -r pattern pods kube_reserved; do
  case "$type" in $pattern) max_pods=$pods; break ;; esac
done <<'TABLE'
{table}
TABLE
"""
POWERSHELL: Final = """\
$MaxPodsTable = @'
{table}
'@
$InstanceType = ''
try {{
  $Imds = 'http://169.254.169.254/latest'
  $Ttl = @{{'X-aws-ec2-metadata-token-ttl-seconds' = '300'}}
  $Token = Invoke-RestMethod -Method Put -Uri "$Imds/api/token" -Headers $Ttl
  $Session = @{{'X-aws-ec2-metadata-token' = $Token}}
  $InstanceType = Invoke-RestMethod -Uri "$Imds/meta-data/instance-type" -Headers $Session
}} catch {{ Write-Host "instance type unknown: $_" }}
foreach ($Line in $MaxPodsTable -split "`r?`n") {{
  $Pattern, $Pods = $Line -split '='
  if ($Pods -and $InstanceType -clike $Pattern) {{ $MaxPods = $Pods; break }}
}}
"""


def in_shell(table: Table) -> str:
    return SHELL.format(table=table.text)


def in_powershell(table: Table) -> str:
    return POWERSHELL.format(table=table.text)
