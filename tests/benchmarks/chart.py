"""The baseline: a Helm chart of a TensorFlow job, with the kinds that mlgen renders for it.

Its templates are written as by hand: one for each kind, with `range` over the roles. They build
TF_CONFIG from the numbers of replicas in values.yaml.
"""

FILES = {
    "Chart.yaml": """\
apiVersion: v2
name: mnist
version: 1.0.0
""",
    "values.yaml": """\
image: example/mnist:1.4
port: 2222
roles:
  - {name: chief, replicas: 1, workload: Job, command: [python, train.py]}
  - {name: ps, replicas: 2, workload: StatefulSet, command: [python, train.py]}
  - {name: worker, replicas: 4, workload: Job, command: [python, train.py]}
resources:
  limits: {cpu: "4", memory: 8Gi}
supervisor:
  image: python:3.13-slim
  command: [python, -m, supervisor]
""",
    "templates/_helpers.tpl": """\
{{- define "mnist.labels" -}}
app.kubernetes.io/name: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}
{{- define "mnist.hosts" -}}
{{- $hosts := list }}
{{- range $index := until (int .role.replicas) }}
{{- $hosts = append $hosts (printf "%s-%s-%d.%s:%v" $.root.Release.Name $.role.name $index $.root.Release.Name $.root.Values.port) }}
{{- end }}
{{- toJson $hosts }}
{{- end }}
{{- define "mnist.cluster" -}}
{ {{- range $number, $role := .Values.roles }}{{ if $number }}, {{ end }}{{ quote $role.name }}: {{ include "mnist.hosts" (dict "root" $ "role" $role) }}{{ end -}} }
{{- end }}
{{- define "mnist.pod" -}}
metadata:
  labels:
    {{- include "mnist.labels" .root | nindent 4 }}
    role: {{ .role.name }}
spec:
  subdomain: {{ .root.Release.Name }}
  restartPolicy: {{ .restartPolicy }}
  containers:
    - name: main
      image: {{ .root.Values.image }}
      command: {{ toJson .role.command }}
      ports:
        - containerPort: {{ .root.Values.port }}
      env:
        - name: INDEX
          valueFrom:
            fieldRef:
              fieldPath: metadata.labels['{{ .index }}']
        - name: TF_CONFIG
          value: '{"cluster": {{ include "mnist.cluster" .root }}, "task": {"type": {{ quote .role.name }}, "index": $(INDEX)}}'
      resources:
        {{- toYaml .root.Values.resources | nindent 8 }}
{{- end }}
""",  # noqa: E501 - Helm
    "templates/service.yaml": """\
apiVersion: v1
kind: Service
metadata:
  name: {{ .Release.Name }}
  labels:
    {{- include "mnist.labels" . | nindent 4 }}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector:
    {{- include "mnist.labels" . | nindent 4 }}
  ports:
    - name: training
      port: {{ .Values.port }}
""",
    "templates/workloads.yaml": """\
{{- range $role := .Values.roles }}
---
{{- if eq $role.workload "StatefulSet" }}
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: {{ $.Release.Name }}-{{ $role.name }}
  labels:
    {{- include "mnist.labels" $ | nindent 4 }}
spec:
  replicas: {{ $role.replicas }}
  serviceName: {{ $.Release.Name }}
  podManagementPolicy: Parallel
  selector:
    matchLabels:
      role: {{ $role.name }}
  template:
    {{- include "mnist.pod" (dict "root" $ "role" $role "restartPolicy" "Always" "index" "apps.kubernetes.io/pod-index") | nindent 4 }}
{{- else }}
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ $.Release.Name }}-{{ $role.name }}
  labels:
    {{- include "mnist.labels" $ | nindent 4 }}
spec:
  completionMode: Indexed
  completions: {{ $role.replicas }}
  parallelism: {{ $role.replicas }}
  backoffLimit: 6
  template:
    {{- include "mnist.pod" (dict "root" $ "role" $role "restartPolicy" "OnFailure" "index" "batch.kubernetes.io/job-completion-index") | nindent 4 }}
{{- end }}
{{- end }}
""",  # noqa: E501 - Helm
    "templates/supervisor.yaml": """\
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .Release.Name }}-supervisor
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ .Release.Name }}-supervisor
rules:
  - apiGroups: [batch]
    resources: [jobs]
    verbs: [get, patch, delete]
    resourceNames:
      {{- range .Values.roles }}
      - {{ $.Release.Name }}-{{ .name }}
      {{- end }}
  - apiGroups: [""]
    resources: [pods]
    verbs: [get, list, watch, delete]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ .Release.Name }}-supervisor
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ .Release.Name }}-supervisor
subjects:
  - kind: ServiceAccount
    name: {{ .Release.Name }}-supervisor
---
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .Release.Name }}-supervisor
  labels:
    {{- include "mnist.labels" . | nindent 4 }}
spec:
  template:
    spec:
      serviceAccountName: {{ .Release.Name }}-supervisor
      restartPolicy: OnFailure
      containers:
        - name: supervisor
          image: {{ .Values.supervisor.image }}
          command: {{ toJson .Values.supervisor.command }}
          volumeMounts:
            - {name: program, mountPath: /program}
      volumes:
        - name: program
          configMap:
            name: {{ .Release.Name }}-supervisor
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}.status
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-supervisor
binaryData:
  {{- range $path, $content := .Files.Glob "program/*" }}
  {{ base $path }}: {{ $content | toString | b64enc }}
  {{- end }}
""",
}


def write(folder, program):
    """Write the chart into a folder, with the archive of the supervisor."""
    files = {name: text.encode() for name, text in FILES.items()}
    for name, content in {**files, "program/supervisor.pyz": program}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder
