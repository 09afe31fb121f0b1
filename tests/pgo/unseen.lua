-- What was never recorded: another mixture, other data.
local function sieve(limit)
  local composite, primes = {}, 0
  for i = 2, limit do
    if not composite[i] then
      primes = primes + 1
      for multiple = i * i, limit, i do composite[multiple] = true end
    end
  end
  return primes
end
print("primes", sieve(30000))

-- Values of nested lists written as text, taken apart again.
local function write(value)
  if type(value) ~= "table" then return tostring(value) end
  local parts = {}
  for i, item in ipairs(value) do parts[i] = write(item) end
  return "[" .. table.concat(parts, ",") .. "]"
end
local function read(text, position)
  if text:sub(position, position) == "[" then
    local list = {}
    position = position + 1
    while text:sub(position, position) ~= "]" do
      if text:sub(position, position) == "," then position = position + 1 end
      list[#list + 1], position = read(text, position)
    end
    return list, position + 1
  end
  local number = text:match("^-?%d+", position)
  return tonumber(number), position + #number
end
local function nest(depth) if depth == 0 then return {1, -2, 30} end return {nest(depth - 1), depth, nest(depth - 1)} end
local text = write(nest(8))
print("nested", #text, write(read(text, 1)) == text)

local Stack = {}
Stack.__index = Stack
function Stack.new() return setmetatable({n = 0}, Stack) end
function Stack:push(v) self.n = self.n + 1 self[self.n] = v end
function Stack:pop() local v = self[self.n] self[self.n] = nil self.n = self.n - 1 return v end
local stack, sum = Stack.new(), 0
for i = 1, 20000 do stack:push(i * 0.5) if i % 3 == 0 then sum = sum + stack:pop() end end
print("stack", sum, stack.n)
print("reversed", (("abcdef"):rep(50):reverse():upper():gsub("[AEIOU]", "*")):sub(1, 12))
