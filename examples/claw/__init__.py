"""Tasks of an assistant in an office of mail, calendar, chat, contacts and files."""
