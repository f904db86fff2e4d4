"""Measurements of speed, memory and size; they print a table and assert nothing about time."""
