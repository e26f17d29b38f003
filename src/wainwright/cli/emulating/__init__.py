"""What `wain emulator` is made of: serving, and changing what is served."""
