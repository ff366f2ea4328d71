-- Whatever could fail fails before the first write: a script that ends then has written nothing, and what it
-- has written is not taken back.
local outbox, expiring, sizes = prefix .. 'outbox', prefix .. 'expiring', prefix .. 'sizes'
local marker_ms, outbox_max = take(), tonumber(take())
if redis.call('XLEN', outbox) >= outbox_max then
    return redis.error_reply('MFOUTBOX as many audit records wait as may')
end
redis.call('ZCARD', expiring)
redis.call('HLEN', sizes)
local function may(command, key)
    return redis.acl_check_cmd(command, key, key, key, key, key)
end
for command, keys in pairs({
    SET = { marker, prefix .. 'entry:' },
    DEL = { prefix .. 'entry:' },
    ZADD = { prefix .. 'index:', expiring },
    ZREM = { prefix .. 'index:', expiring },
    HINCRBY = { sizes },
    XADD = { outbox },
}) do
    for _, key in ipairs(keys) do
        if not may(command, key) then
            return redis.error_reply('NOPERM the user may not run ' .. command .. ' on ' .. key)
        end
    end
end
local record = { outbox, '*' }
for _ = 1, tonumber(take()) do
    record[#record + 1] = take()
end
local writes = {}
for number = 1, tonumber(take()) do
    local write = {
        resource = take(), key = take(), version = take(), kind = take(), expiry = take(), value = take(),
    }
    write.entry = prefix .. 'entry:' .. write.resource .. ':' .. write.key
    write.index = prefix .. 'index:' .. write.resource
    write.length = redis.call('STRLEN', write.entry)
    redis.call('ZCARD', write.index)
    if not tonumber(redis.call('HGET', sizes, write.resource) or 0) then
        return redis.error_reply('WRONGTYPE the size of a resource is no number')
    end
    record[#record + 1] = write.kind .. ':' .. write.resource
    record[#record + 1] = struct.pack('>I4', #write.value) .. write.key
    writes[number] = write
end

redis.call('XADD', unpack(record))
redis.call('SET', marker, '1', 'PX', marker_ms)
local deltas = {}
for _, write in ipairs(writes) do
    local member, delta = write.resource .. ':' .. write.key, 0
    if write.length > 0 then
        delta = HEADER - write.length - #write.key - 128
    end
    if write.kind == 'put' then
        local expires = 0
        if write.expiry == 'kept' and write.length >= HEADER then
            expires = struct.unpack('>I8', redis.call('GETRANGE', write.entry, 8, HEADER - 1))
        elseif write.expiry ~= 'kept' and write.expiry ~= '' then
            expires = now + tonumber(write.expiry)
        end
        redis.call('SET', write.entry, write.version .. struct.pack('>I8', expires) .. write.value)
        redis.call('ZADD', write.index, 0, write.key)
        if expires > 0 then
            redis.call('ZADD', expiring, expires, member)
        else
            redis.call('ZREM', expiring, member)
        end
        delta = delta + #write.value + #write.key + 128
    else
        redis.call('DEL', write.entry)
        redis.call('ZREM', write.index, write.key)
        redis.call('ZREM', expiring, member)
    end
    deltas[write.resource] = (deltas[write.resource] or 0) + delta
end
for resource, delta in pairs(deltas) do
    redis.call('HINCRBY', sizes, resource, delta)
end
return 1
