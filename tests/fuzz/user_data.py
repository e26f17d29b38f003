"""User data of an EC2NodeClass: MIME parts, NodeConfigs, TOML and scripts, with values made odd."""

import json
from random import Random
from typing import Final

import yaml

NODE_CONFIG: Final = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n"
CLUSTER: Final = (
    "{name: wain, apiServerEndpoint: 'https://a', certificateAuthority: Q0E=, cidr: 10.0.0.0/16}"
)
ALIASES: Final = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{last}'] * 9)}]\n"
    for last, name in zip("abcdefgh", "bcdefghi", strict=True)
)
"""300 bytes, and 9^9 values."""
YAML_VALUES: Final = (
    *("[" * 7000 + "]" * 7000, "[" * 7000, "{a: " * 2000, "{a: " * 90 + "1" + "}" * 90),
    *("&s {x: *s}", "*none", "{? [a] : b}", "{? {a: b} : c}", "{<<: 1}", "{<<: [&b {c: *b}]}"),
    *("!!bool x", "!!int x", "!!float x", "!!timestamp x", "!!binary é", "!!python/none x", "!x y"),
    *("9" * 6000, "0x" + "f" * 6000, ":59" * 2000, "1" + ":59" * 2000, ".nan", ".inf", "1e400"),
    *("2026-99-99", "2026-01-01T00:00:00Z", '"\\ud800"', '"\\0"', "null", "5", "[null]", "{5: x}"),
    *("[{key: 5}]", "[{key: a, value: [], effect: {}}]", "{cpu: 1e400}", "{memory: .nan}", "²"),
    *("{memory.available: nan%}", "[--max-pods=²]", '["\'"]', "[--node-labels==,=,a=b=c]"),
    *("--max-pods=" + "9" * 4000, "[--pods-per-core=" + "9" * 4000 + "]"),
)
KUBELET_FIELDS: Final = (
    *("maxPods", "podsPerCore", "kubeReserved", "systemReserved", "evictionHard", "evictionSoft"),
    *("evictionSoftGracePeriod", "registerWithTaints", "clusterDNS", "imageGCHighThresholdPercent"),
)
TOML_VALUES: Final = (
    *("[" * 2000, "[" * 2000 + "]" * 2000, "{a=" * 2000, "9" * 5000, "0x" + "f" * 5000, "9" * 30),
    *("nan", "-inf", "1e400", "2026-99-99", "99:99:99", "9999-12-31T23:59:59Z", "07:32:00", "true"),
    *("{" + "a." * 3000 + "b=1}", '"\\ud800"', "'''", "5", "-1", '"²"', "[]", "{}", "[[5]]"),
    *('{a="b"}', '{"=,"=":"}', "{a=[5]}", '{a=[":NoSchedule", "x"]}', '{cpu="1e400"}'),
)
BOTTLEROCKET_SETTINGS: Final = (
    *("settings", "settings.kubernetes", "settings.kubernetes.node-labels"),
    *("settings.kubernetes.max-pods", "settings.kubernetes.node-taints"),
    *("settings.kubernetes.cluster-dns-ip", "settings.kubernetes.kube-reserved"),
    *("settings.kubernetes.eviction-hard", "settings.bootstrap-commands"),
    *("settings.bootstrap-commands.a", "settings.bootstrap-commands.a.commands", "a." * 7000 + "b"),
)
HEADERS: Final = (
    *("application/node.eks.aws", "text/x-shellscript", "text/plain", "message/rfc822", "/", ";;"),
    *('text/plain; charset="idna"', 'text/plain; charset="a\0"', 'multipart/mixed; boundary="B"'),
    *(f"multipart/mixed; boundary*{'9' * 5000}*=a", "application/node.eks.aws\nX: y\n z"),
    *("text/x-shellscript\nContent-Transfer-Encoding: base64", "message/delivery-status"),
    *("text/x-shellscript\nContent-Transfer-Encoding: x-uuencode",),
)
WHOLE: Final = (
    *("", " ", "\0", "a = ", "{", "é\u2028\u0085", "#!/bin/sh\n", "#cloud-config\n{", "---\n---\n"),
    *("MIME-Version: 1.0\n" + "Content-Type: message/rfc822\n\n" * 400, "MIME-Version: 1.0\n"),
    "#!/bin/bash\n/etc/eks/bootstrap.sh 'a --kubelet-extra-args \"",
    "#!/bin/bash\n/etc/eks/bootstrap.sh a --kubelet-extra-args '--max-pods=²'\n",
    "<powershell>\n& $EKSBootstrapScriptFile -EKSClusterName ('a' \n</powershell>",
    "<powershell>\n& $F -EKSClusterName 'a' -KubeletExtraArgs '--max-pods=²'\n</powershell>",
)


def odd_user_data(random: Random) -> str:
    match random.randrange(8):
        case 0:
            return random.choice(WHOLE)
        case 1 | 2:
            return _toml(random)
        case 3 | 4:
            return _node_configs(random)
        case _:
            return _mime(random, random.choice((1, 2, 3)))


def _node_configs(random: Random) -> str:
    return "---\n".join(_node_config(random) for _ in range(random.choice((1, 1, 2, 3))))


def _node_config(random: Random) -> str:
    value = random.choice(YAML_VALUES)
    match random.randrange(6):
        case 0:
            return f"{NODE_CONFIG}spec: {value}\n"
        case 1:
            return f"{NODE_CONFIG}{ALIASES}spec: {{cluster: {CLUSTER}}}\n"
        case 2:
            return f"{NODE_CONFIG}spec: {{cluster: {CLUSTER}, kubelet: {{flags: {value}}}}}\n"
        case 3:
            return str(yaml.safe_dump(json.loads(json.dumps({"spec": value}))))
        case _:
            config = f"{{{random.choice(KUBELET_FIELDS)}: {value}}}"
            return f"{NODE_CONFIG}spec: {{cluster: {CLUSTER}, kubelet: {{config: {config}}}}}\n"


def _toml(random: Random) -> str:
    lines = [
        f"{random.choice(BOTTLEROCKET_SETTINGS)} = {random.choice(TOML_VALUES)}"
        for _ in range(random.choice((1, 1, 2)))
    ]
    return "\n".join(["[a]", "b = 1", *lines][random.choice((0, 2, 2)) :])


def _mime(random: Random, parts: int) -> str:
    lines = ["MIME-Version: 1.0", 'Content-Type: multipart/mixed; boundary="B"', ""]
    for _ in range(parts):
        header = HEADERS[0] if random.random() < 0.6 else random.choice(HEADERS)
        lines += ["--B", f"Content-Type: {header}", "", _node_config(random)]
    return "\n".join([*lines, "--B--" if random.random() < 0.9 else "", ""])
