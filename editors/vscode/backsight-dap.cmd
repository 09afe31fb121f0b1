@backsight dap
