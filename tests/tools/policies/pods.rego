# Rules such as platform teams write for conftest (https://www.conftest.dev). Each finding starts with
# the name of its rule.
package main

import rego.v1

pod := input.spec.template.spec if input.kind in {"Job", "StatefulSet", "Deployment"}

containers contains container if {
	some field in ["containers", "initContainers"]
	some container in pod[field]
}

deny contains finding("required-labels", label) if {
	some label in ["app.kubernetes.io/name", "app.kubernetes.io/managed-by", "team"]
	not input.metadata.labels[label]
}

deny contains finding("required-labels", sprintf("pods: %s", [label])) if {
	some label in ["app.kubernetes.io/name", "team"]
	pod
	not input.spec.template.metadata.labels[label]
}

deny contains finding("no-latest-tag", container.image) if {
	some container in containers
	not regex.match(`(:[^/]+|@sha256:.+)$`, container.image)
}

deny contains finding("no-latest-tag", container.image) if {
	some container in containers
	endswith(container.image, ":latest")
}

deny contains finding(sprintf("%s-%s", [resource, kind]), container.name) if {
	some container in containers
	some kind in ["requests", "limits"]
	some resource in ["cpu", "memory"]
	not object.get(container, ["resources", kind, resource], false)
}

deny contains finding("no-privileged", container.name) if {
	some container in containers
	container.securityContext.privileged
}

deny contains finding("no-host-network", "") if pod.hostNetwork

deny contains finding("no-host-path", volume.name) if {
	some volume in pod.volumes
	volume.hostPath
}

finding(rule, detail) := sprintf("%s: %s %s: %s", [rule, input.kind, input.metadata.name, detail])
