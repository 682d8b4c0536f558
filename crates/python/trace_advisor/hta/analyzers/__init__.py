"""Analyses by topic. Each turns views of Trace Advisor into the frames of HTA."""
