"""Configuration of HTA."""
