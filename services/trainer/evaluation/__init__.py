"""What evaluations come to: estimators of one task (`rates`), intervals over tasks (`intervals`), the file (`report`).

`openforge eval` and the evaluations during training share it.
"""
