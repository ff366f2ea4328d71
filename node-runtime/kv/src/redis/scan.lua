-- The last key that was looked at if there may be more behind it, and keys and values of what is there.
local index, entries, from, to, limit = take(), take(), '[' .. take(), '(' .. take(), tonumber(take())
local keys, found = redis.call('ZRANGEBYLEX', index, from, to, 'LIMIT', 0, limit), {}
for _, key in ipairs(keys) do
    local entry = redis.call('GET', entries .. key)
    if entry and is_there(entry) then
        found[#found + 1] = key
        found[#found + 1] = entry
    end
end
return { #keys >= limit and keys[#keys] or '', found }
