-- The last key that was looked at if there may be more behind it, and keys and values of what is there. So many keys are looked at in one
-- script, whether or not they have expired.
local LOOKED_AT = 256
local index, entries, from, to, limit = take(), take(), '[' .. take(), '(' .. take(), tonumber(take())
local keys, found = redis.call('ZRANGEBYLEX', index, from, to, 'LIMIT', 0, LOOKED_AT), {}
local last = #keys == LOOKED_AT and keys[LOOKED_AT] or ''
for _, key in ipairs(keys) do
    if is_there(redis.call('GETRANGE', entries .. key, 0, HEADER - 1)) then
        found[#found + 1] = key
        found[#found + 1] = redis.call('GET', entries .. key)
        if #found == 2 * limit then
            last = key
            break
        end
    end
end
return { last, found }
