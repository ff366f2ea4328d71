{{- define "mfaas.name" -}}
{{- printf "%s-mfaas" .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "mfaas.image" -}}
{{- $image := index .root.Values.images .image -}}
{{- printf "%s:%s" $image.repository ($image.tag | default .root.Chart.AppVersion) -}}
{{- end -}}

{{- define "mfaas.selector" -}}
app.kubernetes.io/name: mfaas
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "mfaas.labels" -}}
{{ include "mfaas.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- end -}}

{{- /* Pod Security "restricted": a number for the user, no root, no new rights. */ -}}
{{- define "mfaas.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .root.Values.images.pullSecrets }}
imagePullSecrets: {{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: {{ .user }}
  runAsGroup: {{ .group }}
  fsGroup: {{ .group }}
  {{- /* Otherwise each start opens what a volume holds to the group, keys too. */}}
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
{{- if .seccomp }}
    type: Localhost
    localhostProfile: {{ .seccomp }}
{{- else }}
    type: RuntimeDefault
{{- end }}
{{- end -}}

{{- define "mfaas.container" -}}
image: {{ include "mfaas.image" . }}
imagePullPolicy: {{ .root.Values.images.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end -}}

{{- define "mfaas.database" -}}
- name: MFAAS_DATABASE_URL
  valueFrom:
    secretKeyRef: {name: {{ . }}, key: url}
{{- end -}}

{{- /* The authorities of the database, where the machine's are not enough: `?sslrootcert=/database/FILE` in its URLs. */ -}}
{{- define "mfaas.databaseMount" -}}
{{- if .Values.database.caSecret -}}
- {name: database, mountPath: /database, readOnly: true}
{{- end -}}
{{- end -}}

{{- define "mfaas.databaseVolume" -}}
{{- with .Values.database.caSecret -}}
- name: database
  secret: {secretName: {{ . }}}
{{- end -}}
{{- end -}}

{{- /* Programs whose only listener shows metrics have one where the values say who scrapes. */ -}}
{{- define "mfaas.scraped" -}}
{{- if or .Values.serviceMonitor.enabled .Values.networkPolicy.fromMetrics }}yes{{ end -}}
{{- end -}}

{{- define "mfaas.registry" -}}
{{ include "mfaas.database" .secret }}
- name: MFAAS_BLOBS_URL
  value: {{ required "blobs.url is needed: s3://bucket/prefix" .root.Values.blobs.url | quote }}
- name: MFAAS_LOG_JSON
  value: "1"
- name: MFAAS_READY_FILE
  value: /run/mfaas/ready.json
{{- with .root.Values.telemetry.endpoint }}
- name: OTEL_EXPORTER_OTLP_ENDPOINT
  value: {{ . | quote }}
{{- end }}
{{- end -}}

{{- /* Keys have to be their program's own and closed to others, which a mounted Secret is not. */ -}}
{{- define "mfaas.keys" -}}
- name: keys
  {{- include "mfaas.container" . | nindent 2 }}
  command: [sh, -c, "umask 077 && mkdir -p /keys/own && cp -L /secret/* /keys/own/"]
  resources: {requests: {cpu: 10m, memory: 16Mi}, limits: {memory: 64Mi}}
  volumeMounts:
    - {name: secret, mountPath: /secret, readOnly: true}
    - {name: keys, mountPath: /keys}
{{- end -}}
