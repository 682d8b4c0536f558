"""Configuration of the parser."""

from .._not_offered import not_offered

__getattr__ = not_offered("hta.configs.parser_config", "the tables, which have all arguments: trace.run.sql")
