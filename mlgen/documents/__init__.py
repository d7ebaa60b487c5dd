"""Text → documents whose every value knows its line."""
