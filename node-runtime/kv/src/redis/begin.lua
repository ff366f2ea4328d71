local prefix = 'mfaas:{kv}:'
local at = 0
local function take()
    at = at + 1
    return ARGV[at]
end

if redis.call('GET', prefix .. 'identity') ~= take() then
    return redis.error_reply('MFSTRANGER the server holds the data of another one, or none')
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- An entry's value is 8 bytes of version, 8 of expiry in ms since 1970 or 0, and what the function put.
local HEADER = 16

-- Whether the entry that begins like that counts as there.
local function is_there(header)
    if #header < HEADER then
        return false
    end
    local expires = struct.unpack('>I8', header, 9)
    return expires == 0 or expires > now
end
