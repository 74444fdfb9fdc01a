return token
end

