"""The dashboard reads what a supervisor serves, and Prometheus finds each supervisor."""

import json
import re
from dataclasses import replace
from itertools import combinations

import yaml
from runtime.test_decide import GANG, NOW, RUNNING, done, seen, settled
from support import ROOT, manifests

from mlgen.runtime.progress import Progress, stored_text
from mlgen.runtime.status import metrics

FOLDER = ROOT / "integrations/grafana"
GUIDE = (ROOT / "docs/guides/dashboard.md").read_text()
BOARD = json.loads((FOLDER / "mlgen.json").read_text())
PANELS = BOARD["panels"]
VARIABLES = BOARD["templating"]["list"]
QUERIES = [
    *(target["expr"] for panel in PANELS for target in panel["targets"]),
    *(each["query"]["query"] for each in VARIABLES if each["type"] == "query"),
]
JOB = ROOT / "fixtures/pytorch-network-policy.yaml"
SUPERVISOR = "mlgen.dev/role", "supervisor"


def written():
    """Return the labels of each metric of a supervisor's /metrics, in a state that has all."""
    ended = settled(seen(worker=done("Complete", succeeded=2), state=replace(RUNNING, restarts=3)))
    told = Progress(last=NOW, percent=45, remaining=60, metrics=(("loss", "0.25"),))
    data = {**ended.status, "progress": stored_text(told, NOW)}
    text = metrics(GANG._replace(progress=True), data, {"accepted": 1})
    found = {}
    for name, labels in re.findall(r"^(\w+)\{(.*)\} \S+$", text, re.MULTILINE):
        for label, value in re.findall(r'(\w+)="([^"]*)"', labels):
            found.setdefault(name, {}).setdefault(label, set()).add(value)
    return found


def read(prefix):
    """Return the metrics with a prefix that the queries name, each with its selector."""
    pairs = [pair for query in QUERIES for pair in re.findall(r"\b([a-z]\w+)\{([^}]*)\}", query)]
    return [pair for pair in pairs if pair[0].startswith(prefix)]


def test_every_metric_of_a_supervisor_is_one_that_it_serves():
    served = written()

    for name, selector in read("mlgen_"):
        for label, operator, value in re.findall(r'(\w+)(=~?)"([^"]*)"', selector):
            if label != "namespace":  # Prometheus adds it
                known = served[name][label]
                assert operator == "=~" or value.startswith("$") or value in known, selector
    assert {name for name, _ in read("mlgen_")} <= {*served}
    assert len(re.findall("mlgen_job_", " ".join(QUERIES))) == len(read("mlgen_")) > 0


def test_every_panel_has_a_title_a_description_and_a_query_of_the_chosen_source():
    source = {"type": "prometheus", "uid": "${datasource}"}

    assert all(panel["title"] and panel["description"] and panel["targets"] for panel in PANELS)
    assert all(each["datasource"] == source for each in (*PANELS, *VARIABLES[1:]))
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)


def test_panels_do_not_overlap():
    places = [panel["gridPos"] for panel in PANELS]

    assert all(place["x"] >= 0 and place["x"] + place["w"] <= 24 for place in places)
    for a, b in combinations(places, 2):
        beside = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
        assert beside or a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"]


def test_every_variable_in_a_query_exists():
    used = {name for query in QUERIES for name in re.findall(r"\$(\w+)", query)}

    assert used - {"__range", "1"} == {each["name"] for each in VARIABLES} - {"datasource"}


def test_all_panels_show_the_same_state_of_a_job():
    by_state, table = (each for each in PANELS if each["targets"][0]["refId"] == "state")
    counted, state = (each["targets"][0]["expr"] for each in (by_state, table))
    labels = {
        each["matcher"]["options"]: each["properties"][0]["value"]
        for each in by_state["fieldConfig"]["overrides"]
    }
    (mapping,) = table["fieldConfig"]["overrides"][0]["properties"][0]["value"]
    texts = {code: each["text"] for code, each in mapping["options"].items()}
    codes = re.findall(r'(\d) \* mlgen_job_condition\{condition="(\w+)"', state)

    assert counted == f'count_values("state", {state})'
    assert {"1": "Waiting", **dict(codes)} == labels == texts


def test_the_labels_that_kube_state_metrics_must_give_are_those_of_jobs_and_pods():
    jobs = [each for each in manifests(JOB) if each["kind"] == "Job"]
    (training,) = [job for job in jobs if "mlgen.dev/decides" in job["metadata"]["labels"]]
    of = {"job": training["metadata"], "pod": training["spec"]["template"]["metadata"]}

    for kind, metadata in of.items():
        used = {
            label
            for query in QUERIES
            if f"kube_{kind}_labels" in query
            for label in re.findall(r"label_(mlgen_dev_\w+)", query)
        }
        allowed = re.search(rf"{kind}s=\[(.*?)\]", GUIDE)[1].split(",")
        assert used <= {re.sub(r"\W", "_", label) for label in allowed}
        assert {*allowed} <= {*metadata["labels"]}


def test_prometheus_finds_the_port_of_each_supervisor():
    jobs = [each for each in manifests(JOB) if each["kind"] == "Job"]
    pods = [job["spec"]["template"] for job in jobs]
    (pod,) = [each for each in pods if SUPERVISOR in each["metadata"]["labels"].items()]
    monitor = yaml.safe_load((FOLDER / "podmonitor.yaml").read_text())["spec"]
    (scrape,) = yaml.safe_load((FOLDER / "scrape.yaml").read_text())["scrape_configs"]
    (endpoint,), (discovery,) = monitor["podMetricsEndpoints"], scrape["kubernetes_sd_configs"]

    assert [port["name"] for port in pod["spec"]["containers"][0]["ports"]] == [endpoint["port"]]
    assert endpoint["port"] in [rule.get("regex") for rule in scrape["relabel_configs"]]
    assert monitor["selector"]["matchLabels"] == dict([SUPERVISOR])
    assert [each["label"] for each in discovery["selectors"]] == ["=".join(SUPERVISOR)]
