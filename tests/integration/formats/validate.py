"""Holds JSON files against a schema, formats such as `uri` included: validate.py SCHEMA FILE..."""

import json
import sys

import jsonschema


def main(schema_file, *files):
    with open(schema_file) as file:
        schema = json.load(file)
    kind = jsonschema.validators.validator_for(schema)
    kind.check_schema(schema)
    validator = kind(schema, format_checker=kind.FORMAT_CHECKER)
    wrong = 0
    for name in files:
        with open(name) as file:
            for error in validator.iter_errors(json.load(file)):
                wrong += 1
                print(f"{name}: {error.json_path}: {error.message[:300]}")
    return wrong


if __name__ == "__main__":
    sys.exit(1 if main(*sys.argv[1:]) else 0)
