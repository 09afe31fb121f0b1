#!/bin/sh
exec backsight dap
