"""Tasks on a desktop: screenshots, mouse and keyboard."""
