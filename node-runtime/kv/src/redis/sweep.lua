-- Removes entries that have expired: how many it has looked at.
local expiring, sizes, limit = prefix .. 'expiring', prefix .. 'sizes', take()
local members = redis.call('ZRANGEBYSCORE', expiring, '-inf', now, 'LIMIT', 0, limit)
for _, member in ipairs(members) do
    local colon = string.find(member, ':', 1, true)
    local resource, key = string.sub(member, 1, colon - 1), string.sub(member, colon + 1)
    local entry = prefix .. 'entry:' .. member
    local header = redis.call('GETRANGE', entry, 0, HEADER - 1)
    if #header >= HEADER and not is_there(header) then
        local length = redis.call('STRLEN', entry)
        redis.call('DEL', entry)
        redis.call('ZREM', prefix .. 'index:' .. resource, key)
        redis.call('HINCRBY', sizes, resource, HEADER - length - #key - 128)
    end
    redis.call('ZREM', expiring, member)
end
return #members
