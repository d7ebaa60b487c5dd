"""Record a moment of a job: python record.py JOB NAMESPACE > recorded/NAME.json.

It keeps the fields that mlgen reads, and the warnings among the events. Names and UIDs stay
the same in all recordings of a job.
"""

import json
import re
import subprocess
import sys
import time

LABELS = (
    "mlgen.dev/job",
    "mlgen.dev/supervises",
    "mlgen.dev/role",
    "mlgen.dev/replica-index",
    "batch.kubernetes.io/job-completion-index",
    "apps.kubernetes.io/pod-index",
)

METADATA = (
    "name",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "finalizers",
)

SPEC = ("completions", "parallelism", "replicas", "suspend", "nodeName")

STATUS = (
    "phase",
    "reason",
    "message",
    "podIP",
    "active",
    "ready",
    "succeeded",
    "failed",
    "startTime",
    "readyReplicas",
    "replicas",
    "observedGeneration",
)

CONDITION = ("type", "status", "reason", "message", "lastTransitionTime")

CONTAINER = ("name", "image", "state", "lastState", "restartCount", "started")


def picked(mapping, names):
    return {name: mapping[name] for name in names if name in mapping}


def get(namespace, *words):
    command = ["kubectl", "-n", namespace, "get", *words, "-o", "json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)["items"]


def trimmed(item):
    own = item["metadata"]
    metadata = {**picked(own, METADATA), "namespace": "vision", "uid": own["uid"]}
    metadata["labels"] = picked(own.get("labels", {}), LABELS)
    metadata["ownerReferences"] = [{"uid": each["uid"]} for each in own.get("ownerReferences", ())]
    if item["kind"] == "ConfigMap":
        return {"kind": "ConfigMap", "metadata": metadata, "data": item.get("data") or {}}
    status = item["status"]
    kept = picked(status, STATUS)
    kept["conditions"] = [picked(each, CONDITION) for each in status.get("conditions", ())]
    for field in ("initContainerStatuses", "containerStatuses"):
        if field in status:
            kept[field] = [picked(each, CONTAINER) for each in status[field]]
    spec = picked(item["spec"], SPEC)
    return {"kind": item["kind"], "metadata": metadata, "spec": spec, "status": kept}


def main(job, namespace):
    found = get(namespace, "jobs.batch,statefulsets.apps,pods", "-l", f"mlgen.dev/job={job}")
    found += get(namespace, "pods,configmaps", "-l", f"mlgen.dev/supervises={job}")
    objects = [trimmed(item) for item in found]
    uids = {
        item["metadata"]["uid"]: f"{item['kind'].lower()}-{item['metadata']['name']}"
        for item in objects
    }
    events = [
        {
            "involvedObject": {"uid": each["involvedObject"]["uid"]},
            **picked(each, ("lastTimestamp", "reason", "message")),
        }
        for each in get(namespace, "events", "--field-selector", "type=Warning")
        if each["involvedObject"].get("uid") in uids
    ]
    parts = [f'  "now": {time.time():.0f}']
    for name, items in (("objects", objects), ("events", events)):
        lines = ",\n".join(f"    {json.dumps(item)}" for item in items)
        parts.append(f'  "{name}": [\n{lines}\n  ]')
    text = "{\n" + ",\n".join(parts) + "\n}\n"
    for uid, name in uids.items():
        text = text.replace(uid, name)
    sys.stdout.write(re.sub(r"containerd://[0-9a-f]+", "containerd://1", text))


if __name__ == "__main__":
    main(*sys.argv[1:])
