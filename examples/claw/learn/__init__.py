"""A tiny agent that learns to answer mails from a chat through the office's service, on two cores. README.md tells the "
"story."""
