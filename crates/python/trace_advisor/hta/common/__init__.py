"""Traces, symbols and filters, under the module names of HTA."""
