"""What several packages need: ranks, devices, regular files, checksums of states, trees of batches."""
