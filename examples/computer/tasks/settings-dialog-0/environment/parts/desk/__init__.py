"""A small desktop: python3 -m parts.desk shows windows of data.json in the current folder, on the screen of $DISPLAY.

`window` a desktop and its windows · `seen` what is on the screen, for who cannot look · one file for each program
"""
