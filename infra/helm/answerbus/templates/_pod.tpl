{{- define "answerbus.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "answerbus.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "answerbus.secretVariables" -}}
{{- range $name, $from := . }}
- name: {{ $name }}
  valueFrom:
    secretKeyRef: {name: {{ $from.secret }}, key: {{ $from.key }}}
{{- end }}
{{- end }}

{{- /* The secretFiles of a pod. */ -}}
{{- define "answerbus.mounts" -}}
- {name: settings, mountPath: /etc/answerbus/settings, readOnly: true}
{{- range $name, $_ := . }}
- {name: secret-{{ $name }}, mountPath: /etc/answerbus/secrets/{{ $name }}, readOnly: true}
{{- end }}
{{- end }}

{{- /* (dict "files" .Values.secretFiles "settings" "name of the ConfigMap") */ -}}
{{- define "answerbus.volumes" -}}
- name: settings
  configMap: {name: {{ .settings }}}
{{- range $name, $from := .files }}
- name: secret-{{ $name }}
  secret: {secretName: {{ $from.secret }}, defaultMode: 0440}
{{- end }}
{{- end }}

{{- /* Memory in MiB: the process, the ids of a day (2.1 MB for each request a second), accounts
       (110 bytes each), and full lanes: as many as a worker comes to have when one of the fewest
       workers is lost. */ -}}
{{- define "answerbus.workerResources" -}}
{{- if .Values.workers.resources -}}
{{- toYaml .Values.workers.resources -}}
{{- else -}}
{{- $ids := mulf 2.1 (.Values.workers.requestsPerSecond | float64) -}}
{{- $remembered := (.Values.settings.accounts).remember_s | default 604800 | float64 -}}
{{- $accounts := divf (mulf 110 (.Values.workers.workflowsPerSecond | float64) $remembered) 1048576 -}}
{{- $fewest := ternary .Values.autoscaling.minReplicas .Values.workers.replicas .Values.autoscaling.enabled | int -}}
{{- $lanes := divf (.Values.settings.kafka.partitions | default 12 | float64) (max (sub $fewest 1) 1) | ceil -}}
{{- $lane := divf ((.Values.settings.worker).lane_bytes_max | default 33554432 | float64) 1048576 -}}
{{- $memory := printf "%dMi" (addf 300 $ids $accounts (mulf $lane $lanes) | ceil | int64) -}}
requests: {cpu: {{ .Values.workers.cpu | quote }}, memory: {{ $memory }}}
limits: {memory: {{ $memory }}}
{{- end -}}
{{- end }}

{{- /* Of every pod; `place` may have a nodeSelector and tolerations in place of those of all. */ -}}
{{- define "answerbus.podBasics" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext: {{- include "answerbus.podSecurity" .root | nindent 2 }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .place.nodeSelector | default .root.Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .place.tolerations | default .root.Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "answerbus.workerPod" -}}
metadata:
  labels:
    {{- include "answerbus.labels" (dict "root" . "component" "worker") | nindent 4 }}
    {{- with .Values.identity.podLabels }}{{ toYaml . | nindent 4 }}{{ end }}
  annotations:
    checksum/settings: {{ include "answerbus.fixedToml" . | sha256sum }}
    {{- with .Values.workers.podAnnotations }}{{ toYaml . | nindent 4 }}{{ end }}
spec:
  serviceAccountName: {{ include "answerbus.name" . }}-worker
  terminationGracePeriodSeconds: {{ include "answerbus.grace" . }}
  {{- include "answerbus.podBasics" (dict "root" . "place" .Values.workers) | nindent 2 }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels: {{- include "answerbus.selector" (dict "root" . "component" "worker") | nindent 10 }}
  containers:
    - name: worker
      image: {{ include "answerbus.image" . }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: [worker, --config, /etc/answerbus/settings/answerbus.toml]
      workingDir: /etc/answerbus/settings  # for commands by `kubectl exec`, without --config
      env:
        - name: ANSWERBUS_WORKER__NAME
          valueFrom: {fieldRef: {fieldPath: metadata.name}}
        - {name: ANSWERBUS_WORKER__HEALTH, value: "0.0.0.0:8080"}
        {{- if eq .Values.workers.kind "StatefulSet" }}
        - name: ANSWERBUS_KAFKA__GROUP_INSTANCE_ID
          valueFrom: {fieldRef: {fieldPath: metadata.name}}
        {{- end }}
        {{- include "answerbus.secretVariables" .Values.secretVariables | nindent 8 }}
      ports:
        - {name: health, containerPort: 8080}
      startupProbe:
        httpGet: {path: /live, port: health}
        periodSeconds: 5
        failureThreshold: 60
      livenessProbe:
        httpGet: {path: /live, port: health}
        periodSeconds: 15
        timeoutSeconds: 5
        failureThreshold: 4
      readinessProbe:
        httpGet: {path: /started, port: health}
        periodSeconds: 5
        timeoutSeconds: 5
        failureThreshold: 3
      resources: {{- include "answerbus.workerResources" . | nindent 8 }}
      securityContext: {{- include "answerbus.containerSecurity" . | nindent 8 }}
      volumeMounts: {{- include "answerbus.mounts" .Values.secretFiles | nindent 8 }}
  volumes: {{- include "answerbus.volumes" (dict "files" .Values.secretFiles "settings" (printf "%s-settings" (include "answerbus.name" .))) | nindent 4 }}
{{- end }}
