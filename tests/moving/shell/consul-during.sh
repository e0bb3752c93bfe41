#!/bin/sh
# Both locks, the old one first, while some machines still have only the old one.
exec consul lock locks/worker holdfast run worker -- ./worker.sh
