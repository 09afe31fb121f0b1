-- What is recorded: recursion, tables, strings, sorting, closures.
local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end
print("fib", fib(19))

local function queens(n)
  local columns, up, down, found = {}, {}, {}, 0
  local function place(row)
    if row > n then found = found + 1 return end
    for column = 1, n do
      if not columns[column] and not up[row + column] and not down[row - column + n] then
        columns[column], up[row + column], down[row - column + n] = true, true, true
        place(row + 1)
        columns[column], up[row + column], down[row - column + n] = nil, nil, nil
      end
    end
  end
  place(1)
  return found
end
print("queens", queens(6))

local seed = 42
local function random(limit) seed = (seed * 1103515245 + 12345) % 2147483648 return seed % limit end
local numbers = {}
for i = 1, 2000 do numbers[i] = random(100000) end
table.sort(numbers)
print("sorted", numbers[1], numbers[1000], numbers[2000])

local words, text = {}, {}
for i = 1, 3000 do text[#text + 1] = "word" .. random(200) end
for word in table.concat(text, " "):gmatch("%a+%d+") do words[word] = (words[word] or 0) + 1 end
local distinct = 0
for _ in pairs(words) do distinct = distinct + 1 end
print("words", distinct)

local function counter() local n = 0 return function() n = n + 1 return n end end
local count = counter()
for _ = 1, 20000 do count() end
print("closure", count())
