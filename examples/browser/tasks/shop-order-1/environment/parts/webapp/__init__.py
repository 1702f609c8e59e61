"""A small site of pages with forms: python3 -m parts.webapp serves 127.0.0.1:$PORT from data.json in the current folder.

`exchange` what is asked and answered · `pages` HTML · `wizard` forms of several pages · one file for each kind of site
"""
