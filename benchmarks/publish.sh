#!/bin/sh
# Measures everything that is installed here and writes down what came out: results/NAME.jsonl, tables and plots beside it, the
# README's table, the figure of docs/measured.md, and the numbers in all pages.
#
#   benchmarks/publish.sh NAME [harness arguments]     about an hour with all loaders; leave the machine alone meanwhile
set -eu
cd "$(dirname "$0")/.."
name=${1:?usage: benchmarks/publish.sh NAME [harness arguments]}
shift
results=benchmarks/results/$name
python=.venv/bin/python

$python -m benchmarks.harness --out "$results.jsonl" "$@"
$python -m benchmarks.compare "$results.jsonl" > "$results.md"
$python -m benchmarks.compare "$results.jsonl" --workers 2 --scenario imagenet_train --readme README.md > /dev/null
$python -m benchmarks.plot "$results.jsonl" --out benchmarks/results
$python -m benchmarks.figures
$python -m benchmarks.pages
