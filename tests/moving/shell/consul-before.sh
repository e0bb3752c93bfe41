#!/bin/sh
# One machine at a time runs the worker; the others wait.
exec consul lock locks/worker ./worker.sh
