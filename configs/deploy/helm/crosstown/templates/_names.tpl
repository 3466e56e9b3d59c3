{{- define "crosstown.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-{{ .Chart.Name }}{{ end -}}
{{- end }}

{{- define "crosstown.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "crosstown.labels" -}}
{{ include "crosstown.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "crosstown.file" -}}
{{- if eq .Values.store "file" }}yes{{ end -}}
{{- end }}

{{- define "crosstown.claim" -}}
{{ .Values.persistence.existingClaim | default (printf "%s-data" (include "crosstown.name" .)) }}
{{- end }}

{{- define "crosstown.secret" -}}
{{ .Values.existingSecret | default (include "crosstown.name" .) }}
{{- end }}
