local call, marker = take(), nil
if call ~= '' then
    marker = prefix .. 'call:' .. call
    local known = redis.call('GET', marker)
    if known == '1' then
        return 0
    elseif known then
        return redis.error_reply('MFCONFLICT the call was given up')
    end
end

-- The version of an entry that is there, or no bytes.
local function version_of(entry)
    local header = redis.call('GETRANGE', entry, 0, HEADER - 1)
    return is_there(header) and string.sub(header, 1, 8) or ''
end

for _ = 1, tonumber(take()) do
    local entry, version = take(), take()
    if version_of(entry) ~= version then
        return redis.error_reply('MFCONFLICT an entry is another one')
    end
end

-- What has expired and was not swept is passed over, and so much of it is too much for one script.
local EXPIRED_MAX = 10000
local expired = 0
for _ = 1, tonumber(take()) do
    local index, entries, from, to, versions = take(), take(), '[' .. take(), '(' .. take(), take()
    local expected, keys = 1, nil
    repeat
        keys = redis.call('ZRANGEBYLEX', index, from, to, 'LIMIT', 0, 256)
        for _, key in ipairs(keys) do
            local version = version_of(entries .. key)
            if version == '' then
                expired = expired + 1
                if expired > EXPIRED_MAX then
                    return redis.error_reply('MFBUSY a scan meets too much that has expired')
                end
            elseif string.sub(versions, expected, expected + 7) ~= version then
                return redis.error_reply('MFCONFLICT a scan gives another result')
            else
                expected = expected + 8
            end
            from = '(' .. key
        end
    until #keys < 256
    if expected <= #versions then
        return redis.error_reply('MFCONFLICT a scan gives another result')
    end
end
