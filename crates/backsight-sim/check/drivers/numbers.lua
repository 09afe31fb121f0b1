-- Numbers, strings, tables, closures, coroutines, errors.
local function fibonacci(n) return n < 2 and n or fibonacci(n - 1) + fibonacci(n - 2) end
print("fibonacci", fibonacci(18))

local sum = 0.0
for i = 1, 2000 do sum = sum + math.sin(i) / i + math.sqrt(i) * 1e-3 end
print(string.format("%.17g %a", sum, sum))

local words = {}
for word in ("the trace of a program tells where it went and when"):gmatch("%a+") do words[#words + 1] = word end
table.sort(words)
print(table.concat(words, " "))

local produce = coroutine.wrap(function() for i = 1, 500 do coroutine.yield(i * i) end end)
local total = 0
for square in produce do total = total + square end
print("squares", total)

print(pcall(error, { code = 7 }) == false, select("#", table.unpack({}, 1, 10)))
local t = setmetatable({}, { __index = function(_, key) return key .. "!" end })
print(t.hello, 7 // 2, -7 // 2, 7 % -3, 2 ^ 0.5, 1 << 62, 0x7fffffffffffffff + 1)
