"""What `millrace doctor` knows: what a machine gives a loader, resource by resource, and what to fix first.

Measuring is in disk, network, batches, copies; reading of the kernel's files in machine; judging in
attainable, findings and system_rules.
"""
