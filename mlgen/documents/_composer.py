"""ruamel.yaml's composer, which stops as soon as a document is too deep or has too many values."""

from functools import cache
from typing import Any

from mlgen.bounds import CHARACTERS, DEPTH, VALUES


class TooLargeError(Exception):
    """A document exceeds a bound: what is wrong, what to do, and ruamel.yaml's mark."""

    def __init__(self, message: str, hint: str, mark: Any) -> None:
        super().__init__(message)
        self.message, self.hint, self.mark = message, hint, mark


@cache
def composer() -> Any:
    """Return a class of composers that count what they compose, and what aliases repeat.

    So the figures are known before anything is expanded. Importing ruamel.yaml takes long, which
    is why the class is not one of this module.
    """
    from ruamel.yaml.composer import Composer
    from ruamel.yaml.events import AliasEvent, CollectionStartEvent

    class Bounded(Composer):
        """Composes one document.

        Attributes:
            values: their number so far, including those that aliases repeat.
            characters: in all scalars so far, including those that aliases repeat.
            level: the number of mappings and lists around the current value.
            reached: the largest of these, with that of values that aliases repeat.
            sizes: the values, characters and levels of each node with an anchor, by its id.
        """

        def __init__(self, loader: Any = None) -> None:
            super().__init__(loader)
            self.warn_double_anchors = False
            self.values = self.characters = self.level = self.reached = 0
            self.sizes: dict[int, tuple[int, int, int]] = {}

        def compose_node(self, parent: Any, index: Any) -> Any:
            """Return the node of the next event, as in `Composer`."""
            event = self.parser.peek_event()
            outer = self.reached
            if isinstance(event, AliasEvent):
                node = super().compose_node(parent, index)
                # A value that contains itself is not complete yet, and not expanded later.
                self._add(*self.sizes.get(id(node), (1, 0, 1)), event)
            else:
                values, characters = self.values, self.characters
                is_key = parent is not None and index is None
                opens = isinstance(event, CollectionStartEvent)
                self._add(not is_key, len(getattr(event, "value", "")), opens, event)
                self.level += opens
                node = super().compose_node(parent, index)
                self.level -= opens
                if event.anchor is not None:
                    self.sizes[id(node)] = (
                        self.values - values,
                        self.characters - characters,
                        self.reached - self.level,
                    )
            self.reached = max(outer, self.reached)
            return node

        def _add(self, values: int, characters: int, levels: int, event: Any) -> None:
            """Count a value with all that is in it.

            Raises:
                TooLargeError: these are too many.
            """
            self.values += values
            self.characters += characters
            self.reached = self.level + levels
            hint = "use fewer aliases, or put data into a volume"
            if self.reached > DEPTH:
                raise TooLargeError(
                    f"is nested more than {DEPTH} levels deep", "", event.start_mark
                )
            if self.values > VALUES:
                message = f"the document has more than {VALUES} values after aliases are expanded"
                raise TooLargeError(message, hint, event.start_mark)
            if self.characters > CHARACTERS:
                message = (
                    f"the document has more than {CHARACTERS} characters after aliases are expanded"
                )
                raise TooLargeError(message, hint, event.start_mark)

    return Bounded
