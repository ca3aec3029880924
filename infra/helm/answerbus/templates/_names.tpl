{{- define "answerbus.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{- /* (dict "root" . "component" "worker") */ -}}
{{- define "answerbus.selector" -}}
app.kubernetes.io/name: answerbus
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "answerbus.labels" -}}
{{ include "answerbus.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{- define "answerbus.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- /* The labels by which Prometheus knows the workers of this release. */ -}}
{{- define "answerbus.workerSeries" -}}
{{ printf "namespace=%q,pod=~%q" .Release.Namespace (printf "%s-worker-.*" (include "answerbus.name" .)) }}
{{- end }}
