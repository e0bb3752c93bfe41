#!/bin/sh
# One machine at a time runs the worker; the others wait in order of arrival.
exec holdfast run worker -- ./worker.sh
