"""What is true and allowed: the record, the decision rules and the one way to write."""
