"""A topic of `mlgen explain` → its page."""

from mlgen import frameworks
from mlgen.problems import did_you_mean
from mlgen.reference import fields, pages, problem_codes


def page(topic: str = "", *, recursive: bool = False) -> str:
    """Return the page of a topic.

    Args:
        topic: a framework, a problem code or the path of a field; "" for the job file.
        recursive: print all fields in a field, as a tree.

    Raises:
        LookupError: there is nothing of that name; the message says what may be meant.
    """
    topic = topic.strip("[]")  # a code as in a message: [no-such-peer]
    if not topic:
        root = fields.root()
        names = frameworks.names()
        return pages.field_page(root, recursive=True) if recursive else pages.overview(names)
    if topic in frameworks.names():
        from mlgen.reference.facts import facts

        return pages.framework_page(facts(topic), fields.options(topic))
    if topic in problem_codes.names():
        return pages.code_page(problem_codes.explanation(topic))
    try:
        found = fields.find(topic)
    except LookupError as error:
        names = [*frameworks.names(), *problem_codes.names()]
        hint = did_you_mean(topic, names, cutoff=0.75)
        if "." in topic or not hint:
            raise
        message = f'there is no field, framework or problem code "{topic}"; {hint}'
        raise LookupError(message) from error
    return "\n".join(pages.field_page(field, recursive=recursive) for field in found)
