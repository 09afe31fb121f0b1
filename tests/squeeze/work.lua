-- Tables, strings, closures, coroutines, sorting, errors: for Lua 5.1 and newer.
local seed = 42
local function random(limit)
    seed = (seed * 16807) % 2147483647
    return seed % limit + 1
end

local function queens(n)
    local found, columns, up, down = 0, {}, {}, {}
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

local Account = {}
Account.__index = Account
function Account.new(name) return setmetatable({ name = name, balance = 0, log = {} }, Account) end
function Account:put(amount)
    if amount < 0 and self.balance + amount < 0 then error({ short = -(self.balance + amount) }) end
    self.balance = self.balance + amount
    self.log[#self.log + 1] = string.format("%s:%d", self.name, amount)
end

local function words(text)
    return coroutine.wrap(function() for word in text:gmatch("%a+") do coroutine.yield(word) end end)
end

for round = 1, 30 do
    local accounts, refused = {}, 0
    for i = 1, 20 do accounts[i] = Account.new("account" .. i) end
    for _ = 1, 600 do
        local ok = pcall(Account.put, accounts[random(20)], random(200) - 90)
        if not ok then refused = refused + 1 end
    end
    table.sort(accounts, function(a, b) return a.balance > b.balance or a.balance == b.balance and a.name < b.name end)
    local counts, text = {}, {}
    for i = 1, 300 do text[i] = ("abcdefghijklmnop"):sub(random(8), 8 + random(8)) end
    for word in words(table.concat(text, " ")) do counts[word] = (counts[word] or 0) + 1 end
    local kinds = 0
    for word, count in pairs(counts) do if count > 2 and word:find("^[a-d]") then kinds = kinds + 1 end end
    local sieve, primes = {}, 0
    for n = 2, 2000 do
        if not sieve[n] then
            primes = primes + 1
            for m = n * n, 2000, n do sieve[m] = true end
        end
    end
    if round % 10 == 0 then
        print(round, refused, accounts[1].name, #accounts[1].log, kinds > 0, primes, queens(6), (("x"):rep(round):gsub("xx", "y")))
    end
end
