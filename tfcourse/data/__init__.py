"""Data sets that need no download: generated emails, and the reader's own mailbox."""
