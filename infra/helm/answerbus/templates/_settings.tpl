{{- /* The longest that a call may take, in seconds. */ -}}
{{- define "answerbus.longestCall" -}}
{{- $longest := 0.0 -}}
{{- range .Values.settings.profiles -}}
{{- $longest = maxf $longest (.timeout_s | default 60) -}}
{{- end -}}
{{- $longest -}}
{{- end }}

{{- define "answerbus.drain" -}}
{{- (.Values.settings.worker).drain_s | default (maxf 30 (include "answerbus.longestCall" . | float64)) -}}
{{- end }}

{{- /* A worker ends its calls in drain_s; then it leaves the group and closes its connections. */ -}}
{{- define "answerbus.grace" -}}
{{- add (ceil (include "answerbus.drain" . | float64) | int64) 20 -}}
{{- end }}

{{- define "answerbus.toml" -}}
{{- $settings := deepCopy .Values.settings -}}
{{- $worker := dict "drain_s" (include "answerbus.drain" . | float64) -}}
{{- $_ := set $settings "worker" (merge ($settings.worker | default dict) $worker) -}}
{{- toToml $settings -}}
{{- end }}

{{- /* What a worker takes at a start alone; it takes other profiles and agents while it runs. */ -}}
{{- define "answerbus.fixedToml" -}}
{{- toToml (omit .Values.settings "profiles" "agents") }}
{{ empty .Values.settings.agents }}
{{- end }}

{{- /* All topics, as `answerbus topics apply` has them: those of runs where runs or tools are. */ -}}
{{- define "answerbus.topics" -}}
{{- $files := .Files.Get "files/topics.yaml" -}}
{{- $groups := $files | fromYaml -}}
{{- $topics := $groups.topics -}}
{{- $toolsets := list -}}
{{- range $tool, $server := .Values.toolServers -}}
{{- $toolsets = append $toolsets ($server.toolset | default $tool) -}}
{{- end -}}
{{- range .Values.settings.agents -}}
{{- range .tools -}}
{{- $toolsets = append $toolsets (splitList "." . | first) -}}
{{- end -}}
{{- end -}}
{{- if or .Values.topics.runs .Values.settings.agents .Values.settings.budgets $toolsets -}}
{{- $topics = concat $topics $groups.runs -}}
{{- end -}}
{{- range $toolsets | uniq | sortAlpha -}}
{{- $topics = concat $topics ($files | replace "@TOOLSET@" . | fromYaml).toolset -}}
{{- end -}}
{{- dict "topics" $topics | toYaml -}}
{{- end }}

{{- /* What no schema can compare: one value with another. */ -}}
{{- define "answerbus.check" -}}
{{- $partitions := .Values.settings.kafka.partitions | default 12 | int -}}
{{- if gt (.Values.workers.replicas | int) $partitions -}}
{{- fail (printf "workers.replicas (%v) exceed settings.kafka.partitions (%d): the rest would have no lane." .Values.workers.replicas $partitions) -}}
{{- end -}}
{{- if lt (include "answerbus.drain" . | float64) (include "answerbus.longestCall" . | float64) -}}
{{- fail (printf "settings.worker.drain_s (%s) is shorter than the longest timeout_s of a profile (%s): each scale-down would lose calls that were paid for." (include "answerbus.drain" .) (include "answerbus.longestCall" .)) -}}
{{- end -}}
{{- if .Values.autoscaling.enabled -}}
{{- if gt (.Values.autoscaling.maxReplicas | int) $partitions -}}
{{- fail (printf "autoscaling.maxReplicas (%v) exceeds settings.kafka.partitions (%d): the rest would have no lane." .Values.autoscaling.maxReplicas $partitions) -}}
{{- end -}}
{{- if gt (.Values.autoscaling.minReplicas | int) (.Values.autoscaling.maxReplicas | int) -}}
{{- fail "autoscaling.minReplicas exceeds autoscaling.maxReplicas." -}}
{{- end -}}
{{- if ne .Values.workers.kind "Deployment" -}}
{{- fail "autoscaling needs workers.kind Deployment: a worker with a static id leaves its lanes unserved until it is back." -}}
{{- end -}}
{{- if not .Values.autoscaling.prometheus -}}
{{- fail "autoscaling needs autoscaling.prometheus, the address that KEDA asks." -}}
{{- end -}}
{{- end -}}
{{- if and (or .Values.strimzi.topics .Values.strimzi.users) (not .Values.strimzi.cluster) -}}
{{- fail "strimzi needs strimzi.cluster, the name of the Kafka resource." -}}
{{- end -}}
{{- if and .Values.strimzi.users .Values.topics.enabled (not .Values.strimzi.topics) .Release.IsInstall -}}
{{- $of := .Values.topics -}}
{{- $variables := $of.secretVariables | default .Values.secretVariables -}}
{{- $files := $of.secretFiles | default .Values.secretFiles -}}
{{- range $from := concat (values $variables) (values $files) -}}
{{- if has (trimPrefix (printf "%s-" (include "answerbus.name" $)) $from.secret) $.Values.strimzi.roles -}}
{{- fail (printf "The topics job runs before Strimzi makes the Secret %s that it needs: set strimzi.topics, or make that KafkaUser yourself and leave its role out of strimzi.roles." $from.secret) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $profile, $of := .Values.settings.profiles -}}
{{- if regexMatch "^([^/?#]*//)?[^/?#]*@" ($of.base_url | default "") -}}
{{- fail (printf "settings.profiles.%s.base_url has a user or a password, and would stand in a ConfigMap: give it as the variable ANSWERBUS_PROFILES__%s__BASE_URL in secretVariables." $profile (upper $profile)) -}}
{{- end -}}
{{- end -}}
{{- $shadowed := list -}}
{{- range $profile, $_ := .Values.settings.profiles -}}
{{- if .shadow -}}{{- $shadowed = append $shadowed $profile -}}{{- end -}}
{{- end -}}
{{- if and .Values.shadow.enabled (not $shadowed) -}}
{{- fail "shadow.enabled needs a profile that has one: settings.profiles.NAME.shadow." -}}
{{- end -}}
{{- if and .Values.console.enabled (not (.Values.settings.console).operator_token_env) (not (.Values.settings.console).operators) (not (.Values.settings.console).oidc) -}}
{{- fail "The console needs a token or an issuer: settings.console.operator_token_env or settings.console.oidc." -}}
{{- end -}}
{{- end }}
