
end
return { false, write() }
