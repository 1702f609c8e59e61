"""A computer-use agent: sees a screen, moves a mouse, presses keys. Standard library, Xvfb and xdotool."""
