"""An option with a new name: the old one works, with a warning, and keeps its place."""

import re
from dataclasses import replace

import pytest

from mlgen import MlgenError, convert, frameworks, validate
from mlgen.documents.document import Mark
from mlgen.documents.files import Text
from mlgen.documents.reader import read_documents
from mlgen.problems import Place

JOB = """\
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {name: resnet}
spec:
  framework: horovod
  image: example/resnet:5
  options:
    slotsPerWorker: 4
    NAME: {minReplicas: 2, maxReplicas: 8}
  roles: {launcher: {}, worker: {replicas: 4}}
"""
OLD, NEW = JOB.replace("NAME", "elastic"), JOB.replace("NAME", "elasticPolicy")


def document(text):
    (only,) = read_documents(Text("job.yaml", text))
    return only


def test_the_old_name_gives_the_same_document_with_a_warning(message):
    current, warnings = frameworks.validate(document(OLD))

    assert current.data == document(NEW).data
    assert list(current.data["spec"]["options"]) == ["slotsPerWorker", "elasticPolicy"]
    (warning,) = warnings
    assert f"{warning}\n" == message


def test_the_current_name_gives_the_document_itself():
    original = document(NEW)

    assert frameworks.validate(original) == (original, [])
    assert frameworks.validate(original)[0] is original


def test_values_keep_their_places_under_the_current_name():
    original = document(OLD)
    current, _ = frameworks.validate(original)

    def paths(values):
        return {tuple("elastic" if s == "elasticPolicy" else s for s in p) for p in values}

    for field in ("places", "keys", "texts"):
        assert paths(getattr(current, field)) == getattr(original, field).keys()
    assert current.place(("spec", "options", "elasticPolicy", "maxReplicas")) == Place(
        "job.yaml", 9, 44
    )
    assert current.key_place(("spec", "options", "elasticPolicy")) == Place("job.yaml", 9, 5)


def test_the_original_document_is_not_changed():
    original = document(OLD)
    frameworks.validate(original)

    assert original == document(OLD)


def test_both_names_are_an_error_next_to_all_others():
    text = OLD.replace("    slotsPerWorker: 4", '    elasticPolicy: {minReplicas: "2"}')

    with pytest.raises(MlgenError) as caught:
        frameworks.validate(document(text))

    problems = [(dotted(p), p.code) for p in caught.value.problems]
    assert problems == [
        ("spec.options.elastic", "combination"),
        ("spec.options.elasticPolicy", "missing-field"),
        ("spec.options.elasticPolicy.minReplicas", "wrong-type"),
    ]
    assert caught.value.problems[0].hint == "remove elastic"


def dotted(problem):
    return ".".join(map(str, problem.path))


def test_errors_below_the_old_name_have_the_path_in_the_file():
    with pytest.raises(MlgenError) as caught:
        frameworks.validate(document(OLD.replace("minReplicas: 2", "minReplicas: 0")))

    assert [dotted(p) for p in caught.value.problems] == ["spec.options.elastic.minReplicas"]


def test_a_misspelt_option_is_not_corrected_to_the_old_name():
    with pytest.raises(MlgenError) as caught:
        frameworks.validate(document(JOB.replace("NAME", "elastik")))

    assert [p.hint for p in caught.value.problems] == ['did you mean "elasticPolicy"?']


def test_the_schema_marks_the_old_name_as_deprecated():
    horovod = frameworks.get("horovod")
    current = frameworks.options("horovod")
    (rule,) = frameworks.schema(["horovod"])["allOf"]
    schemas = rule["then"]["properties"]["spec"]["properties"]["options"]["properties"]

    assert horovod.renamed_options == {"elastic": "elasticPolicy"}
    assert set(schemas) == {*current, "elastic"}
    assert schemas["elastic"] == {
        **current["elasticPolicy"],
        "deprecated": True,
        "description": "Deprecated: the old name of elasticPolicy.",
    }
    assert "deprecated" not in schemas["elasticPolicy"]


@pytest.mark.parametrize("options", ["null", "[elastic]", "elastic"])
def test_options_of_the_wrong_type_have_no_old_names(options):
    odd = re.sub(r"options:\n.*\n.*\n", f"options: {options}\n", OLD)

    with pytest.raises(MlgenError) as caught:
        frameworks.validate(document(odd))

    assert {(dotted(p), p.code) for p in caught.value.problems} == {("spec.options", "wrong-type")}


def test_a_document_without_options_has_no_old_names():
    for options in ("", "  options: {}\n"):
        text = re.sub(r"  options:\n.*\n.*\n", options, OLD)

        assert frameworks.validate(document(text)) == (document(text), [])


def test_origins_in_a_custom_resource_follow_the_current_name():
    path = ("spec", "options", "elastic")
    original = document(OLD)
    marks = original.marks.put(path, Mark(original.place(path), origin=("spec", "elastic")))
    converted = replace(original, marks=marks, converted=True)

    current, _ = frameworks.validate(converted)

    assert ("spec", "elastic") == current.origin(("spec", "options", "elasticPolicy"))
    assert ("spec", "options") == current.origin(("spec", "options", "elastic"))


def test_a_job_with_the_old_name_renders_to_the_same_objects():
    old, new = validate(OLD), validate(NEW)

    assert old.objects == new.objects
    assert [warning.code for warning in old.warnings] == ["deprecated"]
    assert new.warnings == ()


def test_the_warning_is_reported_next_to_the_errors_of_the_job():
    with pytest.raises(MlgenError) as caught:
        validate(OLD.replace("replicas: 4", "replicas: 1"))

    assert [p.code for p in caught.value.problems] == ["deprecated", "combination"]


def test_convert_passes_the_old_name_through_with_the_warning():
    text, warnings = convert(OLD)

    assert text.endswith(OLD)
    assert [warning.code for warning in warnings] == ["deprecated"]
