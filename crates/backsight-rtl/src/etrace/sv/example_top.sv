// example_top.sv
