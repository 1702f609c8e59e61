"""Assistant tasks over files, mail, calendar and chat."""
