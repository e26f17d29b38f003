{{- define "wainwright.fullname" -}}
{{- $name := .Values.fullnameOverride | default (.Values.nameOverride | default .Release.Name) -}}
{{- $name | trunc 52 | trimSuffix "-" -}}
{{- end }}

{{- define "wainwright.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "wainwright.fullname" .) -}}
{{- else -}}
{{- required "serviceAccount.name is needed where serviceAccount.create is false" .Values.serviceAccount.name -}}
{{- end -}}
{{- end }}

{{- define "wainwright.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "wainwright.labels" -}}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{ include "wainwright.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.additionalLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "wainwright.metadata" -}}
labels:
  {{- include "wainwright.labels" . | nindent 2 }}
{{- with .Values.additionalAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "wainwright.leaseNamespace" -}}
{{- .Values.settings.leaderElectionNamespace | default .Release.Namespace -}}
{{- end }}

{{- define "wainwright.image" -}}
{{- with .Values.controller.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end }}

{{/* The feature gates as the program reads them: CapacityBuffer=false,… */}}
{{- define "wainwright.featureGates" -}}
{{- $gates := list -}}
{{- range $name, $on := .Values.settings.featureGates -}}
{{- $gates = append $gates (printf "%s%s=%t" (upper (substr 0 1 $name)) (substr 1 -1 $name) $on) -}}
{{- end -}}
{{- join "," $gates -}}
{{- end }}

{{/* A number of a file of values is a float, which would be written as 1e+06. */}}
{{- define "wainwright.amount" -}}
{{- if not (kindIs "float64" .) -}}
{{- . -}}
{{- else if eq . (floor .) -}}
{{- int64 . -}}
{{- else -}}
{{- printf "%.9f" . -}}
{{- end -}}
{{- end }}

{{/* The configuration of the cluster's scheduler as one text; empty where nothing is set. */}}
{{- define "wainwright.schedulerConfig" -}}
{{- with .Values.settings.schedulerConfig -}}
{{- kindIs "string" . | ternary . (toJson .) -}}
{{- end -}}
{{- end }}

{{/* ServiceAccount of every binding. */}}
{{- define "wainwright.subjects" -}}
subjects:
  - kind: ServiceAccount
    name: {{ include "wainwright.serviceAccount" . }}
    namespace: {{ .Release.Namespace }}
{{- end }}
